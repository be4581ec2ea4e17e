package lab

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

// Folders describes where the lab keeps its things. All are below the checkout: a clean
// clone has none of them.
type Folders struct {
	Checkout string // root of the project's sources
	Bin      string // compiled programs
	Images   string // archives of images that every node imports when it starts first
	Run      string // everything of the lab that runs; Down removes it
}

// FindFolders looks for the checkout from the working folder upwards. The folders
// need not exist yet.
func FindFolders() (Folders, error) {
	dir, err := os.Getwd()
	if err != nil {
		return Folders{}, err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, binariesModule, "go.mod")); err == nil {
			return foldersAt(dir), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return Folders{}, errors.New("not inside a checkout of the project")
		}
		dir = parent
	}
}

func foldersAt(checkout string) Folders {
	cache := filepath.Join(checkout, ".cache", "kubernetes")
	return Folders{
		Checkout: checkout,
		Bin:      filepath.Join(cache, "bin"),
		Images:   filepath.Join(cache, "images"),
		Run:      filepath.Join(cache, "run"),
	}
}

// program returns the path of a compiled program.
func (f Folders) program(name string) string { return filepath.Join(f.Bin, name) }

// socketLengthMax is the longest path of a Unix socket that Linux takes, with room
// for the terminating zero.
const socketLengthMax = 107

// socket returns the path of the rack's control socket.
func (f Folders) socket() (string, error) {
	path := filepath.Join(f.Run, "rack.sock")
	if len(path) > socketLengthMax {
		return "", fmt.Errorf("%s is too long a path for a socket: at most %d bytes", path, socketLengthMax)
	}
	return path, nil
}

// pki returns the path of a key, certificate or kubeconfig.
func (f Folders) pki(name string) string { return filepath.Join(f.Run, "pki", name) }

// loaded is where the archives are that were loaded while the lab ran.
func (f Folders) loaded() string { return filepath.Join(f.Run, "images") }

// owner is the file that names the lab's first process.
func (f Folders) owner() string { return filepath.Join(f.Run, "rack.owner") }

// settings is the file with the kernel's settings before the lab.
func (f Folders) settings() string { return filepath.Join(f.Run, "settings.json") }

// cgroups returns the lab's control groups. Two checkouts may each have a lab.
func (f Folders) cgroups() cgroups {
	return cgroups{cgroupRoot, fmt.Sprintf("tickmesh-lab-%08x", crc32.ChecksumIEEE([]byte(f.Run)))}
}
