//go:build !linux

package processor

import "runtime"

// pollerPass lets goroutines go first that are ready.
type pollerPass struct{}

func newPollerPass() *pollerPass { return &pollerPass{} }

func (p *pollerPass) wait() { runtime.Gosched() }

func (p *pollerPass) close() {}
