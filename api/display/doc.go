// Package display writes what commands tell: JSON for programs; tables, sizes and lengths
// of time for people. The commands of tickmesh and of kubectl's plugin share it, so that
// both say the same thing alike.
package display
