package main

import (
	"io"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"
)

// newLog writes to w at a level that can be changed. Format auto is for people
// on a terminal and JSON elsewhere. The configuration has been validated.
func newLog(w io.Writer, level, format string) (*zap.Logger, zap.AtomicLevel) {
	at := zap.NewAtomicLevel()
	setLevel(at, level)
	human := format == "console" || (format == "auto" && isTerminal(w))
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	cfg.EncodeDuration = zapcore.StringDurationEncoder
	cfg.TimeKey = "time"
	enc := zapcore.NewJSONEncoder(cfg)
	if human {
		cfg.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05")
		cfg.EncodeLevel = zapcore.CapitalLevelEncoder
		enc = zapcore.NewConsoleEncoder(cfg)
	}
	return zap.New(zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(w)), at)), at
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func setLevel(at zap.AtomicLevel, level string) {
	if l, err := zapcore.ParseLevel(level); err == nil {
		at.SetLevel(l)
	}
}
