package shardmap

import (
	"errors"
	"fmt"
)

// Bounds of the tokens that a store keeps.
const (
	TokensMax           = 1000
	TokenSwapsMax       = 64 // in one change; etcd takes 128 operations and 1.5 MiB
	tokenIDBytes        = 16
	tokenRecordBytesMax = 16 << 10
)

// TokenSwap replaces the record of a token that is there; Next "" forgets the token.
type TokenSwap struct{ ID, Old, Next string }

// Errors of SwapToken and SwapTokens.
var (
	// ErrToken: the id or the record cannot be kept.
	ErrToken = errors.New("not a valid record of a token")
	// ErrTokens: there are TokensMax tokens already.
	ErrTokens = errors.New("there are too many tokens")
	// ErrTokenChanged: the token's record is not the one expected.
	ErrTokenChanged = errors.New("the record of the token was changed by another")
)

// ValidateTokenSwaps checks the swaps of one change. Errors: ErrToken.
func ValidateTokenSwaps(swaps []TokenSwap) error {
	if len(swaps) > TokenSwapsMax {
		return fmt.Errorf("%w: %d swaps in one change, at most %d", ErrToken, len(swaps), TokenSwapsMax)
	}
	for _, s := range swaps {
		if s.Old == "" {
			return fmt.Errorf("%w: a swap of %s, which is not there", ErrToken, s.ID)
		}
		if err := ValidateToken(s.ID, s.Next); err != nil {
			return err
		}
	}
	return nil
}

// ApplyTokenSwaps applies swaps to records by id, those aside whose old record is another.
func ApplyTokenSwaps(records map[string]string, swaps []TokenSwap) {
	for _, s := range swaps {
		switch {
		case records[s.ID] != s.Old:
		case s.Next == "":
			delete(records, s.ID)
		default:
			records[s.ID] = s.Next
		}
	}
}

// ValidateToken checks a token's id, hexadecimal digits, and the size of its record, of which
// "" forgets the token. What a record says is not looked at. Errors: ErrToken.
func ValidateToken(id, record string) error {
	if len(id) != tokenIDBytes {
		return fmt.Errorf("%w: the id %q", ErrToken, id)
	}
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return fmt.Errorf("%w: the id %q", ErrToken, id)
		}
	}
	if len(record) > tokenRecordBytesMax {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrToken, len(record), tokenRecordBytesMax)
	}
	return nil
}
