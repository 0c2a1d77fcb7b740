// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsapi

import (
	"log/slog"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Account is the AWS account and region in which machines are bought for one cluster: the clients to call, and what
// every part of the provider has to know. It is made once and not changed.
type Account struct {
	*Clients
	Config    Config
	Resources Resources
	Clock     cloud.Clock
	Log       *slog.Logger
}

// Resources is the table of resource names that all resource vectors of a process use.
type Resources interface {
	Dim(name string) model.Dim // the position of a resource in vectors; an unknown name gets a new one
	Names() []string           // by position
}
