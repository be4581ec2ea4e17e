// Package process tests processes of the real program, alone and as a cluster on this machine, as
// somebody meets them at a shell: commands and their answers, files, signals, ports, users and
// certificates. What one package promises is tested beside that package.
package process
