// Package kept keeps a small number of named values: in a file of a data folder (Folder), or
// as the watch of a cluster's placement store tells of them (Mirror). What the values mean is
// no matter here.
package kept
