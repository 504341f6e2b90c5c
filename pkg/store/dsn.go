package store

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// CheckDSN says what is wrong with a DSN, without touching a file.
func CheckDSN(dsn string) error {
	_, err := parseDSN(dsn)
	return err
}

// DSN gives the DSN of a file.
func DSN(path string) string { return (&url.URL{Scheme: "sqlite", Path: path}).String() }

// parseDSN gives the path that a DSN names. What it refuses it does not
// repeat, for there may be a password in it.
func parseDSN(dsn string) (string, error) {
	scheme, _, ok := strings.Cut(dsn, "://")
	switch {
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		return "", fmt.Errorf("a DSN with %s:// is for PostgreSQL, which is not built yet: use sqlite:///absolute/path.db", scheme)
	case !ok || scheme != "sqlite":
		return "", fmt.Errorf("a DSN has to be sqlite:///absolute/path.db")
	}
	u, err := url.Parse(dsn)
	switch {
	case err != nil:
		return "", fmt.Errorf("a DSN has to be sqlite:///absolute/path.db, with %% ? and # in it escaped")
	case u.Host != "" || u.User != nil:
		return "", fmt.Errorf("a DSN needs three slashes and an absolute path: sqlite:///absolute/path.db")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("a DSN takes no parameters, and a ? or # in the path has to be escaped: sqlite:///absolute/path.db")
	case strings.Trim(u.Path, "/") == "" || strings.HasSuffix(u.Path, "/") || strings.ContainsRune(u.Path, 0):
		return "", fmt.Errorf("a DSN has to name a file: sqlite:///absolute/path.db")
	}
	return filepath.Clean(u.Path), nil
}
