package mqtt

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"
)

// Each refusal at a sign-in has a remedy. Mosquitto answers 0x87 to a wrong password, where others answer 0x86.
func TestConnectError(t *testing.T) {
	for code, want := range map[byte]string{
		codePassword:      "check user and password-file",
		codeNotAuthorized: "check user and password-file, and then the broker's access list",
		codeVersion1:      "does not speak MQTT 5",
	} {
		if err := connectError(&paho.Connack{ReasonCode: code}, errors.New("refused")); !strings.Contains(err.Error(), want) {
			t.Errorf("0x%02x: %v, want %q", code, err, want)
		}
	}
	if err := connectError(nil, io.EOF); !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "mqtts://") {
		t.Errorf("no answer: %v", err)
	}
}
