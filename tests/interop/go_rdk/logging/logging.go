// Package logging stands in for the package of this name in the published runtime.
package logging

import "go.viam.com/utils"

// Logger is the part of the published interface that programs hand on.
type Logger interface {
	utils.ZapCompatibleLogger
}

// NewLogger makes a logger with this name.
func NewLogger(name string) Logger {
	return utils.Logger.Named(name)
}
