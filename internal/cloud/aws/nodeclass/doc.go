// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package nodeclass reads EC2NodeClasses and finds what they stand for in the account: subnets, security groups,
// images, capacity reservations, the placement group, the instance profile and the facts of the cluster that a
// machine must know to join. It writes the class's status, and the user data that machines boot with.
//
// It launches nothing and asks for no price. All that it makes is the instance profile of a class that names a role,
// and it deletes that with the class. What a person has to mend is a condition of the class; an error is one of a
// call that may work the next time. Equal classes and registrations give equal user data.
//
// Begin at Resolver.Resolve and Resolved; Resolved.WriteUserData says how a machine boots.
package nodeclass
