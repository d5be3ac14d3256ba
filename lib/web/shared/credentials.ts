/** The API key of the person at a page: kept for the tab, or for this browser if the person asks for it. */

import { storedName } from "./own_place.ts";

export interface SignInKey {
  readonly id: string;
  readonly key: string;
}

/** As the published browser library takes it. */
export function keyCredentials({ id, key }: SignInKey) {
  return { type: "api-key" as const, authEntity: id, payload: key };
}

const STORED = "svc-api-key";

export function storedKey(): SignInKey | undefined {
  for (const storage of storages()) {
    try {
      const found = JSON.parse(storage.getItem(storedName(STORED)) ?? "null");
      if (typeof found?.id === "string" && typeof found.key === "string") return found;
    } catch {
      // Unreadable: as if there were none.
    }
  }
  return undefined;
}

export function storeKey(key: SignInKey, stays: boolean): void {
  forgetKey();
  try {
    (stays ? localStorage : sessionStorage).setItem(storedName(STORED), JSON.stringify(key));
  } catch {
    // Without storage the key holds for this page.
  }
}

export function forgetKey(): void {
  for (const storage of storages()) storage.removeItem(storedName(STORED));
}

function storages(): Storage[] {
  try {
    return [sessionStorage, localStorage];
  } catch {
    return [];
  }
}
