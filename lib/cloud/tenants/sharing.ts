/**
 * Shared locations: another organization, the guest, views and operates the machines of a location.
 *
 * Owns the table `location_shares`. A share opens the AppService calls that operators may make, in the location and
 * the locations inside it, to keys with a role on the guest organization itself, and it opens the machines to these
 * keys. The owner's captured data, packages, fragments and everything else stay the owner's, and guests never become
 * owners.
 */

import { SvcError } from "../../base/error.ts";
import { type Location, LOCATIONS } from "./locations.ts";
import { placeholders, type Sql } from "../store/store.ts";

export class Shares {
  constructor(private readonly sql: Sql) {}

  /** Throws `invalid_argument` for the location's own organization. */
  async share(locationId: string, organizationId: string): Promise<void> {
    const text = "SELECT id FROM locations WHERE id = ? AND organization_id = ?";
    if ((await this.sql.query(text, locationId, organizationId)).length > 0) {
      throw new SvcError(
        "invalid_argument",
        `location ${locationId} belongs to organization ${organizationId}, wanted another one to share it with`,
      );
    }
    await this.sql.query(
      "INSERT INTO location_shares (location_id, organization_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
      locationId,
      organizationId,
    );
  }

  async unshare(locationId: string, organizationId: string): Promise<void> {
    const text =
      "DELETE FROM location_shares WHERE location_id = ? AND organization_id = ? RETURNING location_id";
    const gone = await this.sql.query(text, locationId, organizationId);
    if (gone.length > 0) return;
    throw new SvcError(
      "not_found",
      `location ${locationId} is not shared with organization ${organizationId}`,
    );
  }

  /** By location, the guests of it and of the locations around it. */
  async guestsIn(locationIds: readonly string[]): Promise<ReadonlyMap<string, readonly string[]>> {
    if (locationIds.length === 0) return new Map();
    const rows = await this.sql.query<{ location: string; guest: string }>(
      `WITH RECURSIVE above (location, id) AS (
         SELECT id, id FROM locations WHERE id IN (${placeholders(locationIds)})
         UNION SELECT a.location, l.parent_id FROM locations l JOIN above a ON l.id = a.id
           WHERE l.parent_id IS NOT NULL
       )
       SELECT DISTINCT a.location, s.organization_id AS guest
       FROM above a JOIN location_shares s ON s.location_id = a.id ORDER BY guest`,
      ...locationIds,
    );
    const byLocation = Map.groupBy(rows, ({ location }) => location);
    return new Map([...byLocation].map(([id, guests]) => [id, guests.map(({ guest }) => guest)]));
  }

  /** The foreign locations in which an organization is a guest, with the locations inside them. */
  locationsFor(organizationId: string): Promise<Location[]> {
    return this.sql.query(
      `WITH RECURSIVE inside (id) AS (
         SELECT location_id FROM location_shares WHERE organization_id = ?
         UNION SELECT l.id FROM locations l JOIN inside i ON l.parent_id = i.id
       )
       ${LOCATIONS} WHERE l.id IN (SELECT id FROM inside) ORDER BY l.name, l.id`,
      organizationId,
    );
  }
}
