// What goes wrong, told where it was asked for; a server that wants a key is given one here.

import { labelled, make } from "./element.js";
import { Refused, useKey } from "./api.js";
import { t } from "./strings.js";

let typedKey = ""; // what stands where the API key is typed: a field may come anew while somebody types

/** What the server refused, to be told; a mistake of the page itself goes to the console. */
export function wrong(error) {
  if (error instanceof Refused) return error;
  throw error;
}

/** A sentence; or, where the server asks for a key, a place to type it, after which the page does something `again`. */
export function troubleNode(error, again) {
  const needsKey = [401, 403].includes(error.status) || /api key/i.test(error.message);
  if (!needsKey) {
    return make("p", { class: "trouble", role: "alert" }, error.message || t("unreachable"));
  }
  const keep = () => { typedKey = input.value; };
  const input = make("input", { type: "password", name: "key", autocomplete: "off", required: true, oninput: keep });
  input.value = typedKey;
  const send = (event) => {
    event.preventDefault();
    useKey(input.value);
    input.value = typedKey = "";
    again();
  };
  return make("form", { class: "trouble", onsubmit: send }, make("p", { role: "alert" }, t("keyNeeded")),
    labelled(t("key"), input), make("button", {}, t("keySend")));
}
