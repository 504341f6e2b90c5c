package simulation_test

import (
	"flag"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

var withLogs = flag.Bool("sim.log", false, "tell in a story what the daemon itself logs, too")

// logger is the daemon's log: nothing, or lines of the story.
func (l *life) logger() *zap.Logger {
	if !*withLogs {
		return zap.NewNop()
	}
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "m", NameKey: "n", EncodeDuration: zapcore.StringDurationEncoder,
		EncodeTime: zapcore.RFC3339TimeEncoder, ConsoleSeparator: " "}), zapcore.AddSync(l), zapcore.DebugLevel))
}

// Write implements io.Writer: a line of the log.
func (l *life) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dead {
		l.story.tell("    log: %s", strings.TrimSpace(string(line)))
	}
	return len(line), nil
}
