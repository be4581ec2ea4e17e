// Package quantity reads sizes and lengths of time as people write them: in flags,
// files of settings and files of rules alike.
package quantity
