package couchdb

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-kivik/kivik/v4"
)

// ErrNoDatabase means that the server does not have a database.
var ErrNoDatabase = errors.New("no such database")

// errMissing is a 404 answer.
var errMissing = errors.New("not found")

// explain adds the server, the user and the settings to an error about a refusal. It
// returns other errors unchanged.
func (c Config) explain(err error, database string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUnauthorized), kivik.HTTPStatus(err) == http.StatusUnauthorized:
		return fmt.Errorf("%s refuses the login of user %q: %w (check whisk.couchdb.username and whisk.couchdb.password)", c.URL, c.Username, err)
	case errors.Is(err, ErrForbidden), kivik.HTTPStatus(err) == http.StatusForbidden:
		return fmt.Errorf("%s does not let user %q into database %s: %w (make the user a member of it, or check whisk.couchdb.username)", c.URL, c.Username, database, err)
	case errors.Is(err, errMissing), noDatabase(err):
		return fmt.Errorf("%s has no database %s: %w (check %s)", c.URL, database, ErrNoDatabase, c.databaseKey(database))
	}
	return err
}

// databaseKey returns the name of the setting for a database.
func (c Config) databaseKey(database string) string {
	const keys = "whisk.couchdb.databases."
	switch database {
	case c.Subjects:
		return keys + "WhiskAuth"
	case c.Activations:
		return keys + "WhiskActivation"
	}
	return keys + "WhiskEntity"
}
