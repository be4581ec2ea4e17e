package etcdserver

import (
	"context"
	"log/slog"
	"sync/atomic"

	"go.uber.org/zap/zapcore"
)

// core hands what etcd logs to slog, one level lower: what is news to etcd is a
// detail to us. Only its errors stay errors, and only while it is to run: that it no
// longer serves once it is being stopped is no error.
type core struct {
	log      *slog.Logger
	stopping *atomic.Bool
}

func newCore(log *slog.Logger, stopping *atomic.Bool) zapcore.Core { return &core{log, stopping} }

func (c *core) levelOf(l zapcore.Level) slog.Level {
	switch {
	case c.stopping.Load():
		return slog.LevelDebug
	case l >= zapcore.ErrorLevel:
		return slog.LevelError
	case l == zapcore.WarnLevel:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// Enabled implements zapcore.LevelEnabler.
func (c *core) Enabled(l zapcore.Level) bool {
	return c.log.Enabled(context.Background(), c.levelOf(l))
}

// With implements zapcore.Core.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{slog.New(c.log.Handler().WithAttrs(attributes(fields))), c.stopping}
}

// Check implements zapcore.Core.
func (c *core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write implements zapcore.Core.
func (c *core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	c.log.LogAttrs(context.Background(), c.levelOf(entry.Level), entry.Message, attributes(fields)...)
	return nil
}

// Sync implements zapcore.Core.
func (c *core) Sync() error { return nil }

func attributes(fields []zapcore.Field) []slog.Attr {
	encoder := zapcore.NewMapObjectEncoder()
	list := make([]slog.Attr, 0, len(fields))
	for _, field := range fields {
		field.AddTo(encoder)
		if value, ok := encoder.Fields[field.Key]; ok {
			list = append(list, slog.Any(field.Key, value))
		}
	}
	return list
}
