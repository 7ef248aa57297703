"""The page that people open: verdict, pictures, conventions, SQL."""
