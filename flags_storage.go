package main

import (
	"time"

	"github.com/spf13/pflag"
)

// storageSettings are those of a node's engine.
type storageSettings struct {
	dataDir                     string
	retention                   span
	walSync                     oneOf
	walSyncInterval             span
	checkpointBytes             byteSize
	flushInterval               span
	walFileBytes, pageFileBytes byteSize
	digestInterval              span
}

func (s *storageSettings) define(f *pflag.FlagSet) {
	f.StringVar(&s.dataDir, "data-dir", "tickmesh-data", "`folder` for all data; made if missing")
	f.Var(&s.retention, "retention", "how long samples are kept; 0: for ever")
	s.walSync = oneOf{value: "always", words: []string{"always", "interval", "off"}}
	f.Var(&s.walSync, "wal-sync", "when the log is made safe against a power cut: before each answer, at an interval, or when the operating system likes")
	s.walSyncInterval, s.flushInterval = span(time.Second), span(5*time.Minute)
	f.Var(&s.walSyncInterval, "wal-sync-interval", "the interval of --wal-sync=interval")
	s.checkpointBytes, s.walFileBytes, s.pageFileBytes = 64<<20, 16<<20, 16<<20
	f.Var(&s.checkpointBytes, "checkpoint-bytes", "bytes of log between checkpoints; a restart replays at most twice as many")
	f.Var(&s.flushInterval, "flush-interval", "how often full pages are sorted into segments")
	f.Var(&s.walFileBytes, "wal-file-bytes", "size of the log's files")
	f.Var(&s.pageFileBytes, "page-file-bytes", "size of the page log's files")
	s.digestInterval = span(24 * time.Hour)
	f.Var(&s.digestInterval, "digest-interval", "rest between two readings of all closed days, which find what disks have lost and compare the copies; 0: never")
	group(f, headingStorage, "data-dir", "retention", "wal-sync", "wal-sync-interval",
		"checkpoint-bytes", "flush-interval", "wal-file-bytes", "page-file-bytes", "digest-interval")
}

// Bounds of settings. Files smaller than fileBytesMin hold no round of writes.
const (
	shardsMax    = 4096
	fileBytesMin = 64 << 10
	fileBytesMax = 1 << 30
	retentionMin = time.Hour
)

func (s *storageSettings) validate(v *validation) {
	if s.dataDir == "" {
		v.refuse("data-dir", "", "expected the name of a folder")
	}
	if s.retention != 0 && time.Duration(s.retention) < retentionMin {
		v.refuse("retention", s.retention.String(), "expected 0, for ever, or at least 1h")
	}
	v.notZero("wal-sync-interval", s.walSyncInterval)
	v.notZero("flush-interval", s.flushInterval)
	v.sizeBetween("checkpoint-bytes", s.checkpointBytes, fileBytesMin, byteSizeMax)
	v.sizeBetween("wal-file-bytes", s.walFileBytes, fileBytesMin, fileBytesMax)
	v.sizeBetween("page-file-bytes", s.pageFileBytes, fileBytesMin, fileBytesMax)
}
