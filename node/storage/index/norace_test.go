//go:build !race

package index

const exhaustive = true
