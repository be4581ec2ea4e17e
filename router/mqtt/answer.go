package mqtt

import (
	"errors"
	"fmt"

	"github.com/eclipse/paho.golang/paho"
)

// firstError is the first code of an answer that is an error.
const firstError = 0x80

// Codes of answers that are worded with a remedy.
const (
	codeVersion1      = 0x01 // of MQTT 3.1.1
	codeVersion       = 0x84
	codeClientID      = 0x85
	codePassword      = 0x86
	codeNotAuthorized = 0x87
	codeTakenOver     = 0x8e
	codeNumberInUse   = 0x91
	codeNoWildcards   = 0xa2
	codeNoShares      = 0x9e
)

// wordOf words a code.
func wordOf(code byte) string {
	switch code {
	case codeVersion, codeVersion1:
		return "the broker does not speak MQTT 5: update it, or let a bridge of a newer one read from it"
	case codeClientID:
		return "the broker does not take the client id: set client-id"
	case codePassword:
		return "the broker does not know user and password: check user and password-file"
	case codeNotAuthorized:
		return "the user may not do that: check the broker's access list"
	case codeTakenOver:
		return "another client has the same client id: set a client-id of its own for each server"
	case codeNoShares:
		return "the broker has no shared subscriptions: set share: \"\""
	case codeNoWildcards:
		return "the broker takes no + and # in topics"
	}
	return fmt.Sprintf("code 0x%02x of MQTT 5", code)
}

// connectError words the answer of a broker that does not let this client in.
func connectError(answer *paho.Connack, err error) error {
	if answer == nil || answer.ReasonCode < firstError && answer.ReasonCode != codeVersion1 {
		return fmt.Errorf("the broker did not let this client in; it has to speak MQTT 5, and a port with TLS wants mqtts://: %w", err)
	}
	text := wordOf(answer.ReasonCode)
	if answer.ReasonCode == codeNotAuthorized { // Mosquitto says so of an unknown user and a wrong password, too
		text = "the broker does not let this user in: check user and password-file, and then the broker's access list"
	}
	if answer.Properties != nil && answer.Properties.ReasonString != "" {
		text += " (" + cut(answer.Properties.ReasonString) + ")"
	}
	return errors.New(text)
}

// disconnectError words why a broker has ended the connection.
func disconnectError(d *paho.Disconnect) error {
	text := wordOf(d.ReasonCode)
	if d.Properties != nil && d.Properties.ReasonString != "" {
		text += " (" + cut(d.Properties.ReasonString) + ")"
	}
	return fmt.Errorf("the broker has ended the connection: %s", text)
}
