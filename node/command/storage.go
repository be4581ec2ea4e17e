package command

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/settings"
)

// StorageFlags are those of a node's engine.
type StorageFlags struct {
	DataDir                     string
	Retention                   settings.Duration
	walSync                     settings.Choice
	walSyncInterval             settings.Duration
	checkpointBytes             settings.Bytes
	flushInterval               settings.Duration
	walFileBytes, PageFileBytes settings.Bytes
	digestInterval              settings.Duration
	forgetSeries                bool
	exemplarBytes               settings.Bytes
}

// Define defines the flags, below HeadingStorage.
func (s *StorageFlags) Define(f *pflag.FlagSet) {
	f.StringVar(&s.DataDir, "data-dir", "tickmesh-data", "`folder` for all data; made if missing")
	f.Var(&s.Retention, "retention", "how long samples are kept; 0: for ever")
	s.walSync = settings.Choice{Value: "always", Words: []string{"always", "interval", "off"}}
	f.Var(&s.walSync, "wal-sync", "when the log is made safe against a power cut: before each answer, at an interval, or when the operating system likes")
	s.walSyncInterval, s.flushInterval = settings.Duration(time.Second), settings.Duration(5*time.Minute)
	f.Var(&s.walSyncInterval, "wal-sync-interval", "the interval of --wal-sync=interval")
	s.checkpointBytes, s.walFileBytes, s.PageFileBytes = 64<<20, 16<<20, 16<<20
	f.Var(&s.checkpointBytes, "checkpoint-bytes", "bytes of log between checkpoints; a restart replays at most twice as many")
	f.Var(&s.flushInterval, "flush-interval", "how often full pages are sorted into segments")
	f.Var(&s.walFileBytes, "wal-file-bytes", "size of the log's files")
	f.Var(&s.PageFileBytes, "page-file-bytes", "size of the page log's files")
	s.digestInterval = settings.Duration(24 * time.Hour)
	f.Var(&s.digestInterval, "digest-interval", "rest between two readings of all closed days, which find what disks have lost and compare the copies; 0: never")
	f.BoolVar(&s.forgetSeries, "forget-series", false, "forget series whose samples are all gone; earlier programs do not open a folder that has")
	s.exemplarBytes = 16 << 20
	f.Var(&s.exemplarBytes, "exemplar-bytes", "memory for exemplars, of which the newest are kept; at most an eighth of what series may take; 0: none are kept")
	settings.Group(f, settings.HeadingStorage, "data-dir", "retention", "wal-sync", "wal-sync-interval",
		"checkpoint-bytes", "flush-interval", "wal-file-bytes", "page-file-bytes", "digest-interval", "forget-series", "exemplar-bytes")
	settings.Hide(f, "checkpoint-bytes", "flush-interval", "wal-file-bytes", "page-file-bytes")
}

// Bounds of settings. Files smaller than fileBytesMin hold no round of writes.
const (
	fileBytesMin     = 64 << 10
	fileBytesMax     = 1 << 30
	retentionMin     = time.Hour
	exemplarBytesMax = 1 << 30
)

// Validate refuses values that cannot be.
func (s *StorageFlags) Validate(v *settings.Validation) {
	if s.DataDir == "" {
		v.Refuse("data-dir", "", "expected the name of a folder")
	}
	if s.Retention != 0 && time.Duration(s.Retention) < retentionMin {
		v.Refuse("retention", s.Retention.String(), "expected 0, for ever, or at least 1h")
	}
	v.NotZero("wal-sync-interval", s.walSyncInterval)
	v.NotZero("flush-interval", s.flushInterval)
	v.SizeBetween("checkpoint-bytes", s.checkpointBytes, fileBytesMin, settings.BytesMax)
	v.SizeBetween("exemplar-bytes", s.exemplarBytes, 0, exemplarBytesMax)
	v.SizeBetween("wal-file-bytes", s.walFileBytes, fileBytesMin, fileBytesMax)
	v.SizeBetween("page-file-bytes", s.PageFileBytes, fileBytesMin, fileBytesMax)
}
