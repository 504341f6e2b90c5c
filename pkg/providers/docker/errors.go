package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/reaperd/reaperd/pkg/providers"
)

// callError is how a call to the engine failed, before it is decided what that
// means for the caller.
type callError struct {
	exchange
	err error // in the words of providers
}

func (e *callError) is(status int) bool { return e != nil && e.status == status }

// timedOut says whether a deadline ended the call, its own or the caller's.
func (e *callError) timedOut() bool { return e != nil && errors.Is(e.err, context.DeadlineExceeded) }

// translated gives the error in the words of providers; nil for nil.
func (e *callError) translated() error {
	if e == nil {
		return nil
	}
	return e.err
}

// failed makes a callError of what the client gave.
func (c *connection) failed(ctx context.Context, x exchange, err error) *callError {
	return &callError{exchange: x, err: c.translate(ctx, x.status, err)}
}

func (c *connection) translate(ctx context.Context, status int, err error) error {
	if over := ctx.Err(); over != nil {
		// The Docker client hides some of these behind words of its own.
		return fmt.Errorf("%s: %w", c.where(), over)
	}
	text := clip(err.Error())
	switch {
	case errors.Is(err, providers.ErrUnavailable): // it never got as far as a call
		return err
	case status == 0 && errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: %w", c.refused(), providers.ErrDenied)
	case refusedVersion(status, err):
		return fmt.Errorf("no API version in common with %s: %s: %w", c.where(), text, providers.ErrUnavailable)
	case status == http.StatusNotFound:
		return fmt.Errorf("%s: %w", text, providers.ErrNotFound)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("%s: %s: %w", c.where(), text, providers.ErrDenied)
	case status == http.StatusConflict:
		return fmt.Errorf("%s: %w", text, providers.ErrBusy)
	case status == http.StatusTooManyRequests:
		return fmt.Errorf("%s: %s: %w", c.where(), text, providers.ErrThrottled)
	case status >= http.StatusBadRequest && status < http.StatusInternalServerError:
		return fmt.Errorf("%s: status %d: %s", c.where(), status, text)
	default: // no answer, half an answer, or a status of 500 and more
		return fmt.Errorf("%s: %s: %w", c.where(), text, providers.ErrUnavailable)
	}
}

// refused tells whose the socket is and who reaperd is, since that is what has
// to be brought together.
func (c *connection) refused() string {
	path, unix := strings.CutPrefix(c.where(), "unix://")
	if !unix {
		return c.where()
	}
	text := "socket " + path
	info, err := c.env.stat(path)
	if err != nil {
		text += ": cannot be looked at (" + bare(err).Error() + ")"
	} else {
		text += fmt.Sprintf(" has mode %04o", info.Mode().Perm())
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			text += fmt.Sprintf(" and belongs to user %s, group %s", userName(st.Uid), groupName(st.Gid))
		}
	}
	text += "; reaperd runs as user " + userName(uint32(os.Geteuid())) + ", group " + groupName(uint32(os.Getegid()))
	if more, err := os.Getgroups(); err == nil && len(more) > 0 {
		names := make([]string, len(more))
		for i, gid := range more {
			names[i] = groupName(uint32(gid))
		}
		text += ", also in " + strings.Join(names, ", ")
	}
	return text
}

// userName gives "name (uid)", or the number alone where it has no name.
func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username + " (" + id + ")"
	}
	return id
}

func groupName(gid uint32) string {
	id := strconv.FormatUint(uint64(gid), 10)
	if g, err := user.LookupGroupId(id); err == nil {
		return g.Name + " (" + id + ")"
	}
	return id
}

// clipAt is how many runes of somebody else's text an error shows.
const clipAt = 200

// clip makes somebody else's text fit to be shown: one line, not long.
func clip(s string) string {
	if len(s) > clipAt*8 { // no rune is longer, and the rest would be thrown away
		s = s[:clipAt*8]
	}
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if r := []rune(s); len(r) > clipAt {
		return string(r[:clipAt-1]) + "…"
	}
	return s
}
