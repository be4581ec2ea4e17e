package process

import (
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

// DiskUsage returns the size of a folder's disk and what is used of it; zeros where the
// system does not say.
func DiskUsage(dir string) (capacity, used uint64) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil || s.Bsize <= 0 {
		return 0, 0
	}
	block := uint64(s.Bsize)
	return s.Blocks * block, (s.Blocks - s.Bfree) * block
}

// DiskGauges tell of the disk that a data folder is on.
func DiskGauges(dir string) []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tickmesh_disk_capacity_bytes", Help: "Size of the disk with the data folder; 0: the system does not say.",
		}, func() float64 {
			capacity, _ := DiskUsage(dir)
			return float64(capacity)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tickmesh_disk_used_bytes", Help: "Used of the disk with the data folder, by whatever.",
		}, func() float64 {
			_, used := DiskUsage(dir)
			return float64(used)
		}),
	}
}
