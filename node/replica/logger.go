package replica

import "fmt"

// libraryFault is what the library, or this package in its stead, found wrong, as the
// value of its panic.
type libraryFault string

// libraryLogger drops what the library says, but for its panics: a Host logs nothing,
// and each event that matters is in a Round or a Status.
type libraryLogger struct{}

func (libraryLogger) Debug(...any)            {}
func (libraryLogger) Debugf(string, ...any)   {}
func (libraryLogger) Info(...any)             {}
func (libraryLogger) Infof(string, ...any)    {}
func (libraryLogger) Warning(...any)          {}
func (libraryLogger) Warningf(string, ...any) {}
func (libraryLogger) Error(...any)            {}
func (libraryLogger) Errorf(string, ...any)   {}

func (libraryLogger) Fatal(v ...any)                 { panic(libraryFault(fmt.Sprint(v...))) }
func (libraryLogger) Fatalf(format string, v ...any) { panic(libraryFault(fmt.Sprintf(format, v...))) }
func (libraryLogger) Panic(v ...any)                 { panic(libraryFault(fmt.Sprint(v...))) }
func (libraryLogger) Panicf(format string, v ...any) { panic(libraryFault(fmt.Sprintf(format, v...))) }
