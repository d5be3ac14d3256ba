/** A time of a message of the control plane. */

/** A time of a message. */
export type CallTime = { readonly seconds: bigint; readonly nanos: number };
