package shardmap

import "fmt"

// managerBytesMax is more than any resource's kind, namespace and name take.
const managerBytesMax = 600

// ValidateManager checks the name of a manager. Errors: ErrManager.
func ValidateManager(manager string) error {
	if len(manager) > managerBytesMax {
		return fmt.Errorf("%w: it has %d bytes, at most %d are taken", ErrManager, len(manager), managerBytesMax)
	}
	for _, c := range []byte(manager) {
		if c <= ' ' || c > '~' {
			return fmt.Errorf("%w: %q", ErrManager, manager)
		}
	}
	return nil
}
