package docker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/docker/docker/api"

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

// failed makes a callError of what the client gave. Podman 4.3.1 says with a 500
// and libpod's own errors what Docker has the statuses 409 and 404 for: that the
// container is in no state for this, and that it went while it was looked at.
func (c *connection) failed(ctx context.Context, x exchange, err error) *callError {
	if x.status == http.StatusInternalServerError {
		switch text := err.Error(); {
		case strings.Contains(text, "container state improper"):
			x.status = http.StatusConflict
		case strings.Contains(text, "does not exist in database: no such container"):
			x.status = http.StatusNotFound
		}
	}
	return &callError{exchange: x, err: c.translate(ctx, x, err)}
}

func (c *connection) translate(ctx context.Context, x exchange, err error) error {
	status := x.status
	if over := ctx.Err(); over != nil {
		// The Docker client hides some of these behind words of its own.
		return fmt.Errorf("%s: %w", c.where(), over)
	}
	if why, ok := errors.AsType[*reachError](err); ok {
		return why
	}
	text := clip(err.Error())
	switch {
	case errors.Is(err, providers.ErrUnavailable): // it never got as far as a call
		return err
	case status == 0 && errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: %w", c.refused(), providers.ErrDenied)
	case refusedVersion(status, err):
		return fmt.Errorf("no API version in common with %s: reaperd has %s and older, the engine has %s (%s): %w",
			c.where(), api.DefaultVersion, versionRange(x.speaks, text), text, providers.ErrUnavailable)
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

// versionBound finds the bound that an engine names when it refuses a version.
var versionBound = regexp.MustCompile(`(?i)(minimum|maximum) supported API version is ([0-9]+\.[0-9]+)`)

// versionRange gives what an engine speaks, from the highest version that it
// named and the words with which it refused another.
func versionRange(highest, refusal string) string {
	m := versionBound.FindStringSubmatch(refusal)
	switch {
	case m == nil:
		return saidOr(highest, "others")
	case strings.EqualFold(m[1], "maximum"):
		return m[2] + " and older"
	case highest == "":
		return m[2] + " and newer"
	}
	return m[2] + " to " + clip(highest)
}

// reachError says why an engine could not be reached, in words that are whole:
// nothing that it is wrapped in on its way through the HTTP client adds to them.
type reachError struct {
	text string
	kind error // one of the sentinels of providers
}

func (e *reachError) Error() string { return e.text + ": " + e.kind.Error() }

func (e *reachError) Unwrap() error { return e.kind }

// unreached finds out of what a transport gave why the engine was not reached;
// nil if that is told as well by the error itself.
func (c *connection) unreached(err error) *reachError {
	if why, ok := errors.AsType[*reachError](err); ok {
		return why
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" { // an alert by TLS
		return &reachError{c.where() + ": the engine refused the connection: " + clip(op.Err.Error()), providers.ErrDenied}
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &reachError{c.where() + ": the engine's certificate is not trusted: " + clip(bad.Err.Error()), providers.ErrUnavailable}
	}
	return nil
}

// refused tells whose the socket is and who reaperd is, since that is what has
// to be brought together.
func (c *connection) refused() string {
	path, unix := strings.CutPrefix(c.at().address, "unix://")
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
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if r := []rune(s); len(r) > clipAt {
		return string(r[:clipAt-1]) + "…"
	}
	return s
}
