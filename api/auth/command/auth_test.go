package command

import (
	"strings"
	"testing"
)

func TestReadPassword(t *testing.T) {
	if password, err := readPassword(strings.NewReader("pass word\r\n")); err != nil || password != "pass word" {
		t.Errorf("%q, %v", password, err)
	}
}
