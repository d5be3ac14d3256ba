/**
 * Passwords of people: which are acceptable, and their hash.
 *
 * A password has little entropy, so its hash is slow: scrypt with 32 MiB. The form is that of `base/key_hash.ts`.
 */

import { SvcError } from "../../base/error.ts";
import { hashOfPassword } from "../../base/key_hash.ts";

const CHARS = { min: 10, max: 256 };

/** The hash of an acceptable password. Throws `invalid_argument` for an unacceptable one. Takes a moment. */
export async function newPasswordHash(
  password: string,
  { email }: { readonly email: string },
): Promise<string> {
  const { length } = [...password];
  if (length < CHARS.min || length > CHARS.max) {
    const wanted = `wanted ${CHARS.min} to ${CHARS.max}`;
    throw new SvcError("invalid_argument", `the password has ${length} characters, ${wanted}`);
  }
  const lower = password.toLowerCase();
  if (lower === email || lower === email.split("@", 1)[0]) {
    throw new SvcError("invalid_argument", "the password is the e-mail address, wanted another one");
  }
  if (new Set(lower).size < 4) {
    throw new SvcError("invalid_argument", "the password repeats a few characters, wanted another one");
  }
  return await hashOfPassword(password);
}
