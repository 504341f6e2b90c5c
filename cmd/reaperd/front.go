package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/api"
)

// socketAuto is the path that stands for the usual place.
const socketAuto = "auto"

const socketFile = "reaperd.sock"

// socketPath gives the path of the socket in effect; "" is none. The usual
// place is systemd's runtime directory, else /run/reaperd for root, else the
// user's own, else there is none.
func (l *loaded) socketPath(env environment) string {
	if l.Socket.Path != socketAuto {
		return l.Socket.Path
	}
	// systemd separates several by colons.
	folder, _, _ := strings.Cut(env.getenv("RUNTIME_DIRECTORY"), ":")
	xdg := env.getenv("XDG_RUNTIME_DIR")
	switch {
	case filepath.IsAbs(folder):
	case os.Geteuid() == 0:
		folder = "/run/reaperd"
	case filepath.IsAbs(xdg): // its specification has others ignored
		folder = filepath.Join(xdg, "reaperd")
	default:
		return ""
	}
	return filepath.Join(folder, socketFile)
}

// hears says whether heartbeats could be sent to a daemon of this configuration.
func (l *loaded) hears(env environment) bool {
	return l.socketPath(env) != "" || l.HTTP.TokenFile != ""
}

// places is where the daemon answers.
type places struct {
	listen string
	socket api.SocketOptions // without a path there is none
	// usual says that the socket's place was looked for, and not written.
	usual bool
}

// places gives what a configuration asks for, which has been validated.
func (l *loaded) places(env environment) places {
	p := places{listen: l.HTTP.Listen, usual: l.Socket.Path == socketAuto}
	if path := l.socketPath(env); path != "" {
		mode, _ := strconv.ParseUint(l.Socket.Mode, 8, 32)
		p.socket = api.SocketOptions{Path: path, Mode: fs.FileMode(mode), Group: l.Socket.Group}
	}
	return p
}

// front is the servers that answer now, on TCP and on a socket. A reload may
// put others in their place.
type front struct {
	options     api.Options
	failed      func(error) // told when a server fails by itself
	log         *zap.Logger
	at          places
	tcp, socket *face // socket is nil where there is none
	leaving     sync.WaitGroup
}

// face is one server that answers.
type face struct {
	*api.Server
	served chan struct{} // closed when it answers no more
}

// open answers at the places, and then stops answering at those before that
// are others. A place that cannot be had leaves all as it was.
func (f *front) open(ctx context.Context, next places) error {
	tcp, socket := f.tcp, f.socket
	if tcp == nil || next.listen != f.at.listen {
		o := f.options
		o.Listen = next.listen
		server, err := api.Listen(ctx, o)
		if err != nil {
			return err
		}
		tcp = &face{Server: server}
	}
	if socket == nil || next.socket != f.at.socket {
		var err error
		if socket, err = f.openSocket(ctx, next); err != nil {
			if tcp != f.tcp {
				err = errors.Join(err, tcp.Shutdown(ctx))
			}
			return err
		}
	}
	wasTCP, wasSocket := f.tcp, f.socket
	f.tcp, f.socket, f.at = tcp, socket, next
	f.replace(ctx, wasTCP, tcp)
	f.replace(ctx, wasSocket, socket)
	return nil
}

// hears says whether heartbeats can be sent to what answers now.
func (f *front) hears(config *loaded) bool { return f.socket != nil || config.HTTP.TokenFile != "" }

// openSocket gives nil where there is to be no socket, or where the usual place
// is closed to this user: who only looks for one does not need it.
func (f *front) openSocket(ctx context.Context, next places) (*face, error) {
	if next.socket.Path == "" {
		if next.usual {
			f.log.Warn("there is no place for a socket: set socket.path, or '' to have none")
		}
		return nil, nil
	}
	o := next.socket
	if f.socket != nil {
		o.Instead = f.socket.Server
	}
	server, err := api.ListenSocket(ctx, o, f.options)
	closed := errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
	if closed && next.usual && f.socket == nil {
		f.log.Warn("there is no socket: set socket.path to where one can be, or '' to have none", zap.Error(err))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &face{Server: server}, nil
}

// replace has a server answer in the place of another; either may be nil.
func (f *front) replace(ctx context.Context, old, next *face) {
	if old == next {
		return
	}
	if next != nil {
		next.served = make(chan struct{})
		go func() {
			defer close(next.served)
			if err := next.Serve(); err != nil {
				f.failed(err)
			}
		}()
	}
	if old != nil {
		// It takes no more when this returns, but requests under way are not
		// waited for: the one that asks for a reload is itself among them. That
		// one is cut off which does not finish in time is no fault of the new.
		f.leaving.Go(func() { _ = old.leave(ctx) })
		<-old.served
	}
}

// leave lets the requests under way finish, for a while.
func (s *face) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainHTTP)
	defer cancel()
	err := s.Shutdown(ctx)
	<-s.served
	return err
}

// close has all servers leave, and waits for them.
func (f *front) close(ctx context.Context) error {
	var errs [2]error
	for i, s := range []*face{f.tcp, f.socket} {
		if s != nil {
			f.leaving.Go(func() { errs[i] = s.leave(ctx) })
		}
	}
	f.leaving.Wait()
	return errors.Join(errs[:]...)
}
