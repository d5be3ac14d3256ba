/**
 * Where this page stands: the address of its server, and what it keeps in the browser.
 *
 * A reverse proxy may serve the page below a path, `https://robots.example/robots/1/`. Its calls go below the same path,
 * and what it keeps is apart from that of pages below other paths, because a browser gives all pages of one host the
 * same storage.
 */

/** The address of the server, without a slash at its end. */
export function ownAddress(): string {
  return new URL(".", location.href).href.replace(/\/$/, "");
}

/** The path before the server's own paths, `/` without a proxy that adds one. */
export function ownPath(): string {
  return new URL(".", location.href).pathname;
}

/** The name under which this page keeps something in the browser. */
export function storedName(name: string): string {
  const path = ownPath();
  return path === "/" ? name : `${name} ${path}`;
}
