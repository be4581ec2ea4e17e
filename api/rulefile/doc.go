// Package rulefile reads YAML files of rules strictly, and follows their changes.
//
// Strictly means: a key that is not known is an error that names the line and the keys
// that are, as is a key that stands there twice; there is one document, and no anchors,
// aliases and tags. All problems of a file are told at once, a line for each, as
// "file:line: path: what is wrong".
//
// A File is read again while a program runs. A new text that is wrong changes nothing but
// a metric and the log: the rules before stay in force. Files are compared by their
// content, so it does not matter whether they are written over, renamed into place, or
// swapped by symbolic link as Kubernetes does with mounted secrets and configurations.
package rulefile
