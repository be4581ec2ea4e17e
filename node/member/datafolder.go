package member

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// The folders of a cluster in one process, below its data folder.
const (
	LocalEtcdDir  = "etcd"
	LocalTLSDir   = "etcd-tls"
	LocalNodeName = "node-%d"
)

// ofDataFolder reports whether a file or folder at the top of a data folder is one that
// this program makes.
func ofDataFolder(name string) bool {
	switch name {
	case "LOCK", "RUN", "log", "series", "pages", "segments", LocalEtcdDir, LocalTLSDir:
		return true
	}
	for _, prefix := range []string{"MANIFEST", "MAP", "RUN.", "DATABASES", "METADATA", "QUERIES", "TOKENS", "batches-", "exemplars-", "node-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// isDataFolder reports whether a folder is empty, or has a manifest of a node, or of the
// first of several. Only then its files are this program's: a folder named by mistake,
// such as /var, may have a log of its own.
func isDataFolder(dir string) bool {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) == 0 {
		return true
	}
	for _, manifest := range []string{"MANIFEST", filepath.Join(fmt.Sprintf(LocalNodeName, 1), "MANIFEST")} {
		if _, err := os.Stat(filepath.Join(dir, manifest)); err == nil {
			return true
		}
	}
	return false
}

// MakePrivate takes the rights of others from a data folder of an earlier version. A file
// system that does not let it is no reason not to serve.
func MakePrivate(dir string, logger *slog.Logger) {
	if !isDataFolder(dir) {
		return
	}
	changed, err := vfs.MakePrivate(dir, ofDataFolder)
	if changed > 0 {
		logger.Info("the data folder is for its owner alone now", "dir", dir, "changed", changed)
	}
	if err != nil {
		logger.Warn("others may be able to read the data folder", "dir", dir, "error", err)
	}
}
