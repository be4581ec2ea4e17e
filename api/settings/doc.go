// Package settings is how every process and command is configured.
//
// Every setting is a flag, a key of the YAML file of the same name, and an environment variable:
// --http-addr, http-addr:, TICKMESH_HTTP_ADDR. A flag wins over the environment, the environment
// over the file, the file over the default (Load). Role and Bind make a command of a process of
// it; Validation collects what is wrong, so that one start tells all problems.
//
// The settings that several processes have are here: TLS (PublicTLS, PeerTLS), the cluster that
// they are of (Cluster), how they are run and watched (Operation), and where a command finds its
// cluster (Client). What one role alone is told is defined beside that role. The package depends on no
// role, and starts nothing.
package settings
