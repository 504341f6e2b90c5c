package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Token is the secret in a file that whoever changes something over TCP has to
// show. The file is read again when it changes, so that a secret can be
// replaced under a running daemon. One that cannot be read lets nobody in.
type Token struct {
	log *zap.Logger

	mu   sync.Mutex
	path string
	read fs.FileInfo // the file as it was read; nil: it has to be read
	sum  [sha256.Size]byte
	err  error // why there is no sum
	told string
}

// NewToken reads the token in the file of that path; "" is none.
func NewToken(path string, log *zap.Logger) *Token {
	t := &Token{log: log}
	t.SetFile(path)
	return t
}

// SetFile has the token be the one in another file.
func (t *Token) SetFile(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if path != t.path {
		t.path, t.read = path, nil
	}
	if path != "" {
		t.refresh()
	}
}

const challenge = `Bearer realm="reaperd"`

// check says why a request with that Authorization may change nothing; nil
// when it may.
func (t *Token) check(authorization string) error {
	if t == nil {
		return errNoToken
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.path == "" {
		return errNoToken
	}
	t.refresh()
	if t.err != nil {
		return &problem{
			status:  http.StatusServiceUnavailable,
			message: "the daemon cannot read its http.token_file, so that nobody may change anything over TCP: its log says why",
		}
	}
	scheme, shown, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return &problem{
			status: http.StatusUnauthorized, challenge: challenge,
			message: "to change something over TCP, send the header Authorization: Bearer with the token in http.token_file",
		}
	}
	// The sums are of one length, so that the time tells nothing of the token.
	sum := sha256.Sum256([]byte(strings.TrimSpace(shown)))
	if subtle.ConstantTimeCompare(sum[:], t.sum[:]) != 1 {
		return &problem{
			status: http.StatusUnauthorized, challenge: challenge + `, error="invalid_token"`,
			message: "the token is not the one in http.token_file",
		}
	}
	return nil
}

var errNoToken = &problem{
	status:  http.StatusForbidden,
	message: "over TCP nothing can be changed: use the unix socket, or set http.token_file",
}

// refresh reads the file again if it is not the one that was read.
func (t *Token) refresh() {
	info, err := os.Stat(t.path)
	if err == nil && t.read != nil && os.SameFile(info, t.read) && info.Size() == t.read.Size() && info.ModTime().Equal(t.read.ModTime()) {
		return
	}
	var token string
	if err == nil {
		token, err = readToken(t.path, info)
	}
	t.read, t.err = nil, err
	if err == nil {
		t.sum = sha256.Sum256([]byte(token))
		// Of two changes at nearly one time the file's may show but the first.
		if time.Since(info.ModTime()) > coarsest {
			t.read = info
		}
	}
	t.tell()
}

// coarsest is how far apart file systems tell two changes apart, at worst.
const coarsest = 3 * time.Second

// tell logs what is wrong with the file once, and that it no longer is.
func (t *Token) tell() {
	text := ""
	if t.err != nil {
		text = t.path + ": " + t.err.Error()
	}
	switch {
	case text == t.told:
	case text != "":
		t.log.Warn("the token file cannot be used: nobody may change anything over TCP", zap.String("file", t.path), zap.Error(t.err))
	default:
		t.log.Info("the token file can be used again", zap.String("file", t.path))
	}
	t.told = text
}

const longestToken = 4096

func readToken(path string, info fs.FileInfo) (string, error) {
	if !info.Mode().IsRegular() { // to open a pipe would wait for its writer
		return "", fmt.Errorf("it is not a regular file (%s)", info.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(f, longestToken+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	switch {
	case token == "":
		return "", errors.New("it is empty")
	case len(b) > longestToken:
		return "", fmt.Errorf("it has more than %d bytes", longestToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("it has to be one word of ASCII characters, since it goes into a header")
	}
	return token, nil
}

// asker says who asks for a change, or why they may not.
func asker(r *http.Request, token *Token) (string, error) {
	if by, ok := r.Context().Value(peer{}).(string); ok {
		return by, nil
	}
	if err := token.check(r.Header.Get("Authorization")); err != nil {
		return "", err
	}
	return "token", nil
}
