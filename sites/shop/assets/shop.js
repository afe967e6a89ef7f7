// Makes the shop quicker for browsers with JavaScript. Every form works without it.

const toast = document.querySelector(".toast");
let hide;

function say(text, wrong) {
  toast.textContent = text;
  toast.classList.toggle("wrong", Boolean(wrong));
  toast.classList.add("shown");
  clearTimeout(hide);
  hide = setTimeout(() => toast.classList.remove("shown"), 4000);
}

async function add(form) {
  const response = await fetch(form.action, {
    method: "POST",
    headers: { accept: "application/json" },
    body: new URLSearchParams(new FormData(form)),
  });
  const answer = await response.json();
  say(answer.message, !response.ok);
  if (response.ok) {
    const count = document.querySelector("[data-count]");
    count.textContent = answer.count;
    count.setAttribute("aria-label", `${answer.count} in the cart`);
  }
}

for (const form of document.querySelectorAll("form[data-add]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    // Without an answer the form goes the plain way.
    add(form).catch(() => form.submit());
  });
}

for (const form of document.querySelectorAll("form[data-submit-on-change]")) {
  form.querySelector("button[type=submit]").hidden = true;
  form.addEventListener("change", () => form.requestSubmit());
}

// The total follows the choice of delivery.
const checkout = document.querySelector("form[data-goods]");
checkout?.addEventListener("change", () => {
  const delivery = Number(checkout.querySelector("[name=delivery]:checked").dataset.cents);
  const money = (cents) => `$${(cents / 100).toFixed(2)}`;
  const [, delivered, total] = checkout.querySelectorAll(".rows dd");
  delivered.textContent = delivery === 0 ? "Free" : money(delivery);
  total.textContent = money(Number(checkout.dataset.goods) + delivery);
});
