package container

// NotProvisioned returns the error of a Create that failed by the system's fault.
func NotProvisioned(err error) error {
	return &CreateError{Blame: BlameWhisk, Message: "Failed to provision resources to run the action.", Err: err}
}

// NoProgram returns the error of a Create whose image lacks the program that it names.
func NoProgram(image string, err error) error {
	return developerError("executable file not found in image "+image, err)
}

// EndedAtOnce returns the error of a Create whose container ended before it had an
// address.
func EndedAtOnce(err error) error {
	return developerError("The action did not initialize and exited unexpectedly.", err)
}

// PullFailed returns the error of a Create whose image could not be pulled. refused states
// that images of its registry are not allowed.
func PullFailed(image string, refused bool, err error) error {
	text := "Failed to pull container image '" + image + "'."
	if refused {
		text += " Images from this registry are not allowed here."
	}
	return developerError(text, err)
}

func developerError(message string, err error) error {
	return &CreateError{Blame: BlameDeveloper, Message: message, Err: err}
}
