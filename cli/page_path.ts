/** The pages of the programs: where the build puts them, and where the programs find them. */

export interface PagePaths {
  /** The folder of its sources in `lib/web`. */
  readonly folder: string;
  /** The built page as one file, from the root of the tree. */
  readonly path: string;
  /** The name under which an executable embeds it. */
  readonly name: string;
}

/** The page of svc-server. */
export const MACHINE_PAGE: PagePaths = {
  folder: "machine",
  path: "dist/web/machine.page",
  name: "svc-page",
};

/** The page of svc-cloud. */
export const FLEET_PAGE: PagePaths = { folder: "fleet", path: "dist/web/fleet.page", name: "svc-fleet-page" };
