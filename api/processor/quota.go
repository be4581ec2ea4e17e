package processor

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/tickmesh/tickmesh/api/controlgroup"
)

// Files of control groups about processors.
const (
	quotaFile     = "cpu.max"          // quota and period
	quotaFileOld  = "cpu.cfs_quota_us" // of version 1
	periodFileOld = "cpu.cfs_period_us"
)

// quota returns how many processors' time the process' control groups let it use; +Inf: there is no quota. The number
// of Ps does not tell: Go's runtime rounds a quota up, to two at least.
func quota(root fs.FS) float64 {
	least := math.Inf(1)
	for _, name := range controlgroup.Files(root, "cpu", quotaFile, quotaFileOld) {
		text := controlgroup.Read(root, name)
		if path.Base(name) == quotaFileOld {
			text += " " + controlgroup.Read(root, path.Join(path.Dir(name), periodFileOld))
		}
		least = min(least, quotaOf(text))
	}
	return least
}

// quotaOf parses a quota and its period. "max", -1 and what is not understood stand for none.
func quotaOf(text string) float64 {
	words := strings.Fields(text)
	if len(words) != 2 {
		return math.Inf(1)
	}
	used, err := strconv.ParseInt(words[0], 10, 64)
	period, errPeriod := strconv.ParseInt(words[1], 10, 64)
	if err != nil || errPeriod != nil || used <= 0 || period <= 0 {
		return math.Inf(1)
	}
	return float64(used) / float64(period)
}
