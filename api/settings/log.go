package settings

import (
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// Log name the file of settings, and say what is logged and how.
type Log struct {
	config        string
	format, level Choice
}

// Define defines the flags, below HeadingOperation.
func (s *Log) Define(f *pflag.FlagSet) {
	f.StringVar(&s.config, flagConfig, "", "YAML `file` with settings")
	s.format = Choice{Value: "text", Words: []string{"text", "json"}}
	f.Var(&s.format, "log-format", "form of the log on standard error")
	s.level = Choice{Value: "info", Words: []string{"debug", "info", "warn", "error"}}
	f.Var(&s.level, "log-level", "least important kind of log line")
	Group(f, HeadingOperation, flagConfig, "log-format", "log-level")
}

// Logger returns a logger that writes to w as the flags say.
func (s *Log) Logger(w io.Writer) *slog.Logger {
	return newLogger(w, s.format.Value, s.level.Value)
}

func newLogger(w io.Writer, format, level string) *slog.Logger {
	var least slog.Level
	_ = least.UnmarshalText([]byte(level)) // the flag takes only its words
	options := &slog.HandlerOptions{Level: least}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
