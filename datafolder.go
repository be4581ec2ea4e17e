package main

import (
	"log/slog"
	"strings"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// ofDataFolder reports whether a file or folder at the top of a data folder is one that
// this program makes.
func ofDataFolder(name string) bool {
	switch name {
	case "LOCK", "RUN", "log", "series", "pages", "segments", localEtcdDir, localTLSDir:
		return true
	}
	for _, prefix := range []string{"MANIFEST", "MAP", "RUN.", "DATABASES", "batches-", "node-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// makePrivate takes the rights of others from a data folder of an earlier version. A file
// system that does not let it is no reason not to serve.
func makePrivate(dir string, logger *slog.Logger) {
	changed, err := vfs.MakePrivate(dir, ofDataFolder)
	if changed > 0 {
		logger.Info("the data folder is for its owner alone now", "dir", dir, "changed", changed)
	}
	if err != nil {
		logger.Warn("others may be able to read the data folder", "dir", dir, "error", err)
	}
}
