/** Who finds hardware for this machine's configuration. Pure. */

/** The discovery services of this machine: those of a remote find the devices of its own computer. */
export function ownFinders(
  resources: readonly { readonly name: string; readonly type: string; readonly remote: string }[],
): readonly string[] {
  return resources.filter(({ type, remote }) => type === "discovery" && remote === "").map(({ name }) =>
    name
  );
}
