//go:build !linux

package processor

// stepBehind does nothing: the kernel shares out processors as it likes.
func stepBehind() {}

// stepUp ends stepBehind.
func stepUp() {}
