//go:build tools

// Package tools pins the tools that the project is checked with, apart from the
// modules that the product is built of.
package tools

import _ "honnef.co/go/tools/cmd/staticcheck"
