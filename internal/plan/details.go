// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import "maps"

// otherDetails are the codes of actions, with the type of their Detail: Nothing if the code says all. poolChecks, refusals and disruptions
// have the other codes.
var otherDetails = map[Code]Detail{
	NotBindable: OfNotBindable{}, BindingUnfit: OfBindingUnfit{}, BindingRefused: OfSaid{}, Empty: OfEmpty{}, Expired: OfExpired{}, Demand: Nothing{},
	Scheduling: Nothing{}, PodsEnding: Nothing{}, Launching: OfSaid{}, Registering: OfRegistering{}, Initializing: OfInitializing{}, Landed: Nothing{},
	NoAnswer: Nothing{}, LandingTimeout: OfTimeout{}, LaunchTimeout: OfTimeout{}, RegistrationTimeout: OfTimeout{},
	ReservationEnded: OfReservationEnded{}, ClaimRefused: OfSaid{}, InsufficientCap: OfSaid{}, NodeClassNotReady: OfSaid{}, InstanceGone: OfSaid{},
	Orphan: Nothing{}, Draining: OfGracePeriod{}, Terminating: Nothing{}, Deleted: OfGracePeriod{}, CreatedByOthers: Nothing{}, Reclaimed: Nothing{},
	HeldForBuffer: OfHeldForBuffer{}, LandingOff: Nothing{}, TolerateAll: Nothing{}, PreemptsOthers: Nothing{}, PatchRefused: Nothing{},
	StartupTaints: OfNodeTaint{}, ExtendedResource: OfExtendedResource{}, SpreadTaints: OfSpreadTaints{}, EvictionRefused: OfCallFailed{},
	DaemonSets: OfPods{},
}

// details are the types of Detail by code.
var details = collectDetails()

func collectDetails() map[Code]Detail {
	all := maps.Clone(otherDetails)
	maps.Copy(all, refusals)
	maps.Copy(all, disruptions)
	for _, x := range poolChecks {
		all[x.code] = x.detail
	}
	return all
}

// DetailFor returns an empty Detail of the type for a code; nil if the code does not exist.
func DetailFor(code Code) Detail { return details[code] }

// Nothing is the Detail of codes without facts.
type Nothing struct{ detail }
