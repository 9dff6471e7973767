//! What models a server offers: for set-up and for the size of the window.

use hermes_core::ErrorClass;

use crate::json::{self, Value};
use crate::receive::{Received, document, refusal};
use crate::transport::failure;
use crate::{Client, Endpoint, Failure};

/// A model that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// Its name on the wire.
    pub id: String,
    /// Its window in tokens, if the server says so. Never taken from a field that bounds the
    /// output.
    pub context_length: Option<u64>,
}

/// The fields in which servers name the window, best first: what the server was started with
/// before what the model was trained for.
const WINDOW: [&[&str]; 8] = [
    &["loaded_context_length"],
    &["max_model_len"],
    &["meta", "n_ctx"],
    &["context_length"],
    &["context_window"],
    &["max_context_length"],
    &["max_input_tokens"],
    &["meta", "n_ctx_train"],
];

impl Client {
    /// Asks `GET {base_url}/models`.
    ///
    /// # Errors
    /// If no list came.
    pub async fn models(
        &self,
        endpoint: &Endpoint,
        env: &dyn hermes_core::Env,
    ) -> Result<Vec<ModelInfo>, Failure> {
        let response = self.get(endpoint, "/models").await?;
        if !response.status().is_success() {
            return Err(refusal(response, endpoint, env, &mut Received::default()).await);
        }
        let body = document(response, endpoint).await?;
        read(&String::from_utf8_lossy(&body))
            .ok_or_else(|| failure(ErrorClass::Malformed, "no list of models came back".to_owned()))
    }
}

fn read(text: &str) -> Option<Vec<ModelInfo>> {
    let parsed = json::parse_prefix(text).ok()?;
    let list = [parsed.value.get("data"), parsed.value.get("models"), Some(&parsed.value)]
        .into_iter()
        .flatten()
        .find(|list| matches!(list.kind, json::Kind::Array(_)))?;
    let models = list.items().iter().filter_map(|model| {
        let id = ["id", "name", "model"].iter().find_map(|key| model.get(key)?.as_str())?;
        let window = WINDOW.iter().find_map(|path| model.path(path).and_then(Value::as_u64));
        Some(ModelInfo { id: id.to_owned(), context_length: window.filter(|size| *size > 0) })
    });
    Some(models.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_never_taken_from_the_output_cap() {
        let list = read(
            r#"{"data":[{"id":"a","max_tokens":393216,"context_length":1048576},{"id":"b","max_model_len":32768},
               {"id":"c","max_tokens":4096},{"object":"model"},{"id":"d","meta":{"n_ctx_train":131072,"n_ctx":8192}}]}"#,
        )
        .unwrap();
        let shown: Vec<_> = list.iter().map(|m| (m.id.as_str(), m.context_length)).collect();
        assert_eq!(
            shown,
            [("a", Some(1_048_576)), ("b", Some(32768)), ("c", None), ("d", Some(8192))]
        );
        assert_eq!(read("<html>"), None);
        assert_eq!(read("{}"), None);
    }
}
