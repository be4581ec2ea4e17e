package parse

import "strconv"

// fault is what is wrong with a line; its zero value is no fault.
type fault struct {
	kind   Kind
	detail string
}

func syntaxFault(detail string) fault { return fault{KindSyntax, detail} }

func valueFault(detail string) fault { return fault{KindValue, detail} }

func keyTooLong(bytes, bytesMax int) fault {
	return fault{KindLimit, "max key length exceeded: " + strconv.Itoa(bytes) + " > " + strconv.Itoa(bytesMax)}
}

func lineTooLong(bytesMax int) string {
	return "line is longer than " + strconv.Itoa(bytesMax) + " bytes"
}
