package process

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"github.com/tickmesh/tickmesh/api/settings"
)

// MemoryPlan is what depends on how much memory there is.
type MemoryPlan struct {
	goBytes         int64 // soft limit of Go's memory
	availableBytes  int64
	GenerationBytes int64 // of the page log
}

// planMemory shares out what is available. Half is for Go; the rest is for hot
// pages, which Go does not count, and for the kernel's cache of files. An eighth is
// for the generation of the page log that is being filled: queries read its pages
// one by one, and a flush reads it several times, so it should stay in the cache.
func planMemory(available, extentBytes int64) MemoryPlan {
	p := MemoryPlan{availableBytes: available, goBytes: memoryUnlimited, GenerationBytes: generationBytesMax}
	if available < memoryUnlimited {
		p.goBytes = available / 2
		p.GenerationBytes = min(max(available/8, generationBytesMin), generationBytesMax)
	}
	extentBytes = max(extentBytes, 1)
	p.GenerationBytes = max(p.GenerationBytes/extentBytes, 1) * extentBytes
	return p
}

// ApplyMemoryPlan sets the soft limit of Go's memory, unless the environment has set
// it, and returns what follows from how much memory there is.
func ApplyMemoryPlan(memoryLimit, pageFileBytes settings.Bytes) MemoryPlan {
	plan := planMemory(memoryAvailable(os.DirFS("/")), int64(pageFileBytes))
	if memoryLimit > 0 {
		plan.goBytes = int64(memoryLimit)
	}
	if before := debug.SetMemoryLimit(-1); memoryLimit > 0 || before == math.MaxInt64 {
		debug.SetMemoryLimit(plan.goBytes)
	}
	return plan
}

// Share turns the plan into that of one of several nodes in this process.
func (p *MemoryPlan) Share(nodes, extentBytes int64) {
	p.GenerationBytes = max(p.GenerationBytes/nodes/extentBytes, 1) * extentBytes
}

// Log logs what was planned.
func (p *MemoryPlan) Log(logger *slog.Logger) {
	logger.Info("memory", "available_bytes", p.availableBytes, "go_limit_bytes", debug.SetMemoryLimit(-1), "page_log_generation_bytes", p.GenerationBytes)
}
