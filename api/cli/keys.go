package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/cli/archive"
	"github.com/tickmesh/tickmesh/api/settings"
)

// keySettings say how backups are encrypted and signed.
type keySettings struct {
	encryptTo, identities, verifyKeys []string
	signKey                           string
}

// defineReading defines the flags of all commands that look at a target.
func (s *keySettings) defineReading(f *pflag.FlagSet) {
	f.StringSliceVar(&s.identities, "identity", nil, "`file` with identities of age that decrypt encrypted backups")
	f.StringSliceVar(&s.verifyKeys, "verify-key", nil, "`file` with Ed25519 public keys in PEM; backups that none of them has signed are refused")
}

// defineWriting defines the flags of commands that write backups.
func (s *keySettings) defineWriting(f *pflag.FlagSet) {
	f.StringSliceVar(&s.encryptTo, "encrypt-to", nil, "encrypt for this `recipient` of age (age1…), or those in a file; repeatable")
	f.StringVar(&s.signKey, "sign-key", "", "`file` with an Ed25519 key in PEM (`openssl genpkey -algorithm ed25519`) that signs the backup")
}

// Validate refuses what cannot work together.
func (s *keySettings) Validate(v *settings.Validation, incremental bool) {
	if incremental && len(s.encryptTo) > 0 && len(s.identities) == 0 {
		v.Refuse("encrypt-to", strings.Join(s.encryptTo, ","), "--incremental reads earlier backups; give --identity, or leave --incremental out")
	}
}

// recipientPrefix begins recipients of age, as opposed to names of files.
const recipientPrefix = "age1"

// keys reads the keys.
func (s *keySettings) keys() (k archive.Keys, err error) {
	for _, recipient := range s.encryptTo {
		text := []byte(recipient)
		if !strings.HasPrefix(recipient, recipientPrefix) {
			if text, err = os.ReadFile(recipient); err != nil {
				return k, fmt.Errorf("--encrypt-to: %w", err)
			}
		}
		if err := k.EncryptTo(string(text)); err != nil {
			return k, fmt.Errorf("--encrypt-to %s: %w", recipient, err)
		}
	}
	read := func(flag string, names []string, take func([]byte) error) error {
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err == nil {
				err = take(text)
			}
			if err != nil {
				return fmt.Errorf("--%s %s: %w", flag, name, err)
			}
		}
		return nil
	}
	if err := read("identity", s.identities, func(text []byte) error { return k.DecryptWith(string(text)) }); err != nil {
		return k, err
	}
	var sign []string
	if s.signKey != "" {
		sign = []string{s.signKey}
	}
	if err := read("sign-key", sign, k.SignWith); err != nil {
		return k, err
	}
	return k, read("verify-key", s.verifyKeys, k.Trust)
}
