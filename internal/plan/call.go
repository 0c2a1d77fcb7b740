// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

// CallKind is a kind of call that carries out an action.
type CallKind string

// The kinds of calls.
const (
	CallCreateClaim CallKind = "CreateClaim"
	CallUpdateClaim CallKind = "UpdateClaim"
	CallDeleteClaim CallKind = "DeleteClaim"
	CallLaunch      CallKind = "Launch"
	CallTerminate   CallKind = "Terminate"
	CallReboot      CallKind = "Reboot"
	CallUpdateNode  CallKind = "UpdateNode"
	CallDeleteNode  CallKind = "DeleteNode"
	CallBind        CallKind = "Bind"
	CallTolerate    CallKind = "Tolerate"
	CallEvict       CallKind = "Evict"
	CallRestart     CallKind = "Restart"
	CallDeletePod   CallKind = "DeletePod"
	CallUpdatePool  CallKind = "UpdatePool"
	CallUpdateClass CallKind = "UpdateNodeClass"
	CallOverlay     CallKind = "UpdateNodeOverlay"
	CallBuffer      CallKind = "UpdateBuffer"
	CallRequest     CallKind = "UpdateRequest"
	CallQuota       CallKind = "UpdateQuota"
	CallInterrupted CallKind = "taken" // writes to NodeClaims and nodes of interrupted instances
)
