// Package controller has one controller for each kind: when something that a resource
// depends on changes, it makes a pass over it with package reconcile. Controllers decide
// nothing themselves.
package controller
