/** Where the build puts the machine's page, and where svc-server finds it. */

/** The page as one file, from the root of the tree. */
export const PAGE_PATH = "dist/web/machine.page";

/** The name under which executables embed it. */
export const PAGE_NAME = "svc-page";
