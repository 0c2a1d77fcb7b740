// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsapi

import (
	"log/slog"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Account is the AWS account and region of one cluster: the clients, and the configuration shared by all parts of the
// provider. It is read-only.
type Account struct {
	*Clients
	Config    Config
	Resources Resources
	Clock     cloud.Clock
	Log       *slog.Logger
}

// Resources is the table of resource names shared by all resource vectors of a process.
type Resources interface {
	Dim(name string) model.Dim // position of a resource in vectors; an unknown name is added
	Names() []string           // by position
}
