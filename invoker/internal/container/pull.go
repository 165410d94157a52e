package container

import "time"

// Pull is an image that is being pulled.
type Pull struct {
	Image string    `json:"image"`
	Since time.Time `json:"since"`
	// Bytes is how much has arrived of Total, as far as the image's parts are known.
	Bytes int64 `json:"bytes"`
	Total int64 `json:"totalBytes"`
}
